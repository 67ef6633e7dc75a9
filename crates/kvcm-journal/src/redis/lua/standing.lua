-- Tells of the claim that stands, and changes nothing. KEYS: 1 meta, 2 log.
local fence = redis.call('HMGET', KEYS[1], 'cluster', 'epoch', 'incarnation')
if not fence[1] then
  if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then
    return {'lost'}
  end
  return {'none'}
end
return {'stands', fence[1], fence[2] or '', fence[3] or ''}
