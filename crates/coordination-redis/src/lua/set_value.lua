-- ARGV: 2 text, 3 ttl or 0 for none.
if not admits() then
  return {'conflict', version and text(version) or ''}
end
version = (last or now) + 1
redis.call('HSET', KEYS[2], 'version', text(version), 'digest', redis.sha1hex(ARGV[2]))
local ttl = tonumber(ARGV[3])
if ttl > 0 then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  redis.call('PEXPIRE', KEYS[2], text(ttl + DAY_MS))
else
  redis.call('SET', KEYS[1], ARGV[2])
  redis.call('PERSIST', KEYS[2])
end
return {'stored', text(version)}
