-- ARGV: 5 epoch, 6 ttl, 7 info.
if not holder then
  return {'not_held'}
end
if not (recorded and is_reign_of_caller() and text(reign.epoch) == ARGV[5]) then
  return held()
end
local ttl, info = tonumber(ARGV[6]), ARGV[7]
local ends = now + ttl
-- First, for it is not refused when memory is full, and all that follows is then allowed as well.
redis.call('PEXPIREAT', KEYS[1], text(ends))
redis.call('HSET', KEYS[2], 'ttl', text(ttl), 'ends', text(ends), 'info', info, 'server', server)
if info ~= reign.info then
  wake('info')
end
return {'renewed'}
