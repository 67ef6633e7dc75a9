-- Puts a snapshot in the place of what it covers. KEYS: 1 meta, 2 log, 3 ends, 4 the snapshot,
-- 5 the one before it, or the same. ARGV: 4 the last number that it covers, 5 its chunks, 6 the
-- version of their encoding, 7 its name.
local current = redis.call('HMGET', KEYS[1], 'snapshot', 'through')
local through, chunks = tonumber(ARGV[4]), tonumber(ARGV[5])
if current[1] ~= ARGV[7] then
  if through < tonumber(current[2] or '0') then
    redis.call('UNLINK', KEYS[4])
    return {'ok'}
  end
  local length = redis.call('LLEN', KEYS[4])
  if length ~= chunks then
    return {'incomplete', text(length)}
  end
  if chunks > 0 then
    redis.call('PERSIST', KEYS[4])
  end
  if seq < through then
    -- The server lost what it had acknowledged; all of it is in the snapshot.
    redis.call('DEL', KEYS[2], KEYS[3])
    redis.call('HSET', KEYS[1], 'seq', ARGV[4])
  else
    local last = redis.call('LINDEX', KEYS[3], 0)
    while last and tonumber(last) <= through do
      redis.call('LPOP', KEYS[3])
      redis.call('LPOP', KEYS[2])
      last = redis.call('LINDEX', KEYS[3], 0)
    end
  end
  if KEYS[5] ~= KEYS[4] then
    redis.call('UNLINK', KEYS[5])
  end
end
redis.call('HSET', KEYS[1], 'snapshot', ARGV[7], 'through', ARGV[4], 'version', ARGV[6],
  'chunks', ARGV[5])
return {'ok'}
