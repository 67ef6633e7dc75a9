-- ARGV: 5 ttl, 6 floor, 7 info, 8 and 9 incarnation and epoch that are presumed dead, or empty.
local ttl, floor, info = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local ends = now + ttl

local ending, lease_left = nil, 0
if holder then
  if recorded and is_reign_of_caller() then
    -- Not refused when memory is full, and all that follows is then allowed as well.
    redis.call('PEXPIREAT', KEYS[1], text(ends))
    redis.call('HSET', KEYS[2], 'ttl', text(ttl), 'ends', text(ends), 'info', info,
      'server', server)
    if info ~= reign.info then
      wake('info')
    end
    return {'acquired', text(reign.epoch), '1', reign.previous}
  end
  if not (recorded and reign.incarnation == ARGV[8] and text(reign.epoch) == ARGV[9]) then
    -- A lock without time to live would be held for ever, and so would one that lasts longer than
    -- anybody asked for: the server's clock was set back.
    local lease = nil
    if left < 0 then
      lease = ttl
    elseif recorded and left > reign.ttl then
      lease = reign.ttl
    end
    if lease then
      redis.call('PEXPIREAT', KEYS[1], text(now + lease))
      if recorded then
        redis.call('HSET', KEYS[2], 'ttl', text(lease), 'ends', text(now + lease))
      end
      left = lease
    end
    return held()
  end
  ending, lease_left = 'dead', math.max(left, 0)
elseif reign then
  local reserved_left = math.min(reign.reserved_until - now, reign.reserved_ms)
  if reign.reserved_node ~= '' and reign.reserved_node ~= ARGV[1] and reserved_left > 0 then
    return {'reserved', reign.reserved_node, text(reserved_left), text(reign.epoch)}
  end
  if reign.server ~= server then
    -- The record may lack renewals, a release, even whole reigns.
    ending, lease_left = 'unknown', reign.ttl
  elseif reign.phase == 'released' then
    ending = 'released'
  elseif reign.ends > now then
    -- The key vanished before its time.
    ending, lease_left = 'unknown', math.min(reign.ends - now, reign.ttl)
  else
    ending = 'expired'
  end
end

-- A missing counter starts at the wall clock: higher than all that were minted before the loss.
local epoch = math.max(counter or now, floor) + 1
if epoch > 9007199254740991 then
  return redis.error_reply('KVCMEPOCH no epoch is left above ' .. text(epoch - 1))
end
local previous = ''
if ending then
  previous = table.concat({reign.node, reign.incarnation, text(reign.epoch), ending,
    text(lease_left)}, ' ')
end
redis.call('HSET', KEYS[2], 'counter', text(epoch), 'node', ARGV[1], 'incarnation', ARGV[2],
  'epoch', text(epoch), 'info', info, 'ttl', text(ttl), 'ends', text(ends), 'phase', 'held',
  'server', server, 'previous', previous)
redis.call('HDEL', KEYS[2], 'reserved_node', 'reserved_until', 'reserved_ms')
redis.call('SET', KEYS[1], ARGV[1])
-- By the same number as in the record, so that the key never vanishes before its recorded end.
redis.call('PEXPIREAT', KEYS[1], text(ends))
wake('acquired')
return {'acquired', text(epoch), '0', previous}
