-- What all scripts of a writer start with. KEYS[1] is the meta hash. ARGV: 1 cluster, 2 epoch,
-- 3 incarnation.
local fence = redis.call('HMGET', KEYS[1], 'cluster', 'epoch', 'incarnation', 'seq')
if not fence[1] then
  return {'missing'}
end
if fence[1] ~= ARGV[1] or fence[2] ~= ARGV[2] or fence[3] ~= ARGV[3] then
  return {'fenced', fence[1], fence[2] or '0', fence[3] or ''}
end
local seq = tonumber(fence[4] or '0')

