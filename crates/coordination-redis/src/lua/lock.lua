-- What the lock scripts share. KEYS[1] is the lock: the node id of its holder, with the lease as
-- its time to live. KEYS[2] is the record: a hash with all else, which outlives the lease.
-- ARGV: 1 node, 2 incarnation, 3 run id of the server, 4 channel of the lock.
--
-- Everything is read and checked before the first write, for Redis rolls nothing back.

local damaged = nil
local function number(name, value)
  local parsed = tonumber(value)
  if not parsed then
    damaged = name
  end
  return parsed
end

local fields = redis.call('HMGET', KEYS[2], 'counter', 'node', 'incarnation', 'epoch', 'info',
  'ttl', 'ends', 'phase', 'server', 'previous', 'reserved_node', 'reserved_until', 'reserved_ms')

-- The highest epoch that was minted; none when it was lost.
local counter = fields[1] and number('counter', fields[1]) or nil

-- The present reign or, when nobody holds the lock, the last one.
local reign = nil
if fields[2] then
  reign = {
    node = fields[2],
    incarnation = fields[3] or '',
    epoch = number('epoch', fields[4]),
    info = fields[5] or '',
    ttl = number('ttl', fields[6]),
    ends = number('ends', fields[7]),
    phase = fields[8],
    server = fields[9] or '',
    previous = fields[10] or '',
    reserved_node = fields[11] or '',
    reserved_until = number('reserved_until', fields[12] or '0'),
    reserved_ms = number('reserved_ms', fields[13] or '0'),
  }
  if reign.phase ~= 'held' and reign.phase ~= 'released' then
    damaged = 'phase'
  end
end
if damaged then
  return redis.error_reply('KVCMDAMAGED the field ' .. damaged .. ' of the hash ' .. KEYS[2]
    .. ' cannot be read; delete the hash while no node leads')
end

-- Which history of the data this is: another process or another primary may have gone back in time.
local server = ARGV[3] .. ':' .. (string.match(replication, 'master_replid:(%x+)') or '')

local holder = redis.call('GET', KEYS[1])
local left = holder and redis.call('PTTL', KEYS[1]) or 0

-- Whether the record is about the present holder: the key may have been set by other hands.
local recorded = holder and reign and reign.phase == 'held' and reign.node == holder

local function is_reign_of_caller()
  return reign.node == ARGV[1] and reign.incarnation == ARGV[2]
end

local function held()
  local remaining = text(math.max(left, 0))
  if recorded then
    return {'held', reign.node, reign.incarnation, text(reign.epoch), reign.info, remaining}
  end
  return {'held', holder, '', '0', '', remaining}
end

local function wake(what)
  -- A user without the right to publish still has a lock; its waiters poll.
  redis.pcall('PUBLISH', ARGV[4], what)
end

