-- Adds a group. KEYS: 1 meta, 2 log, 3 ends. ARGV: 4 its first number, 5 its last, 6 the group.
local first, last = tonumber(ARGV[4]), tonumber(ARGV[5])
if seq ~= last then
  if seq + 1 ~= first then
    return {'seq', text(seq)}
  end
  redis.call('RPUSH', KEYS[2], ARGV[6])
  redis.call('RPUSH', KEYS[3], ARGV[5])
end
-- Also when it is there already, so that waiting for replicas waits for it.
redis.call('HSET', KEYS[1], 'seq', ARGV[5])
return {'ok'}
