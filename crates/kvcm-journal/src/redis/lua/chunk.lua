-- Adds a chunk to a snapshot that is not finished. KEYS: 1 meta, 2 the snapshot. ARGV: 4 the
-- index of the chunk, 5 the chunk, 6 for how many milliseconds it is kept unless it is finished.
local length, index = redis.call('LLEN', KEYS[2]), tonumber(ARGV[4])
if length == index then
  redis.call('RPUSH', KEYS[2], ARGV[5])
  redis.call('PEXPIRE', KEYS[2], ARGV[6])
elseif length ~= index + 1 then
  return {'incomplete', text(length)}
end
return {'ok'}
