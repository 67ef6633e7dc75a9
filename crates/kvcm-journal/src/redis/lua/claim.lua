-- Makes a claim. KEYS: 1 meta, 2 log. ARGV: 1 cluster, 2 epoch, 3 incarnation, 4 whether an earlier
-- try of this very call may have happened, 5 the latest millisecond of the server's clock at which
-- the caller still listens.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[5]) then
  return redis.error_reply('KVCMLATE the claim came after its deadline')
end
local fence = redis.call('HMGET', KEYS[1], 'cluster', 'epoch', 'incarnation', 'seq', 'through',
  'snapshot', 'version', 'chunks', 'former_epoch', 'former_incarnation')
local former = {fence[9] or '', fence[10] or ''}
local is_repeat = ARGV[4] == '1' and fence[1] == ARGV[1] and fence[2] == ARGV[2]
  and fence[3] == ARGV[3]
if not fence[1] then
  if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then
    return {'lost'}
  end
elseif not is_repeat then
  local epoch = tonumber(fence[2] or '')
  if not epoch then
    return {'lost'}
  end
  if fence[1] ~= ARGV[1] or epoch >= tonumber(ARGV[2]) then
    return {'refused', fence[1], fence[2], fence[3] or ''}
  end
  former = {fence[2], fence[3] or ''}
end
-- Also when it stands already, so that waiting for replicas waits for it.
redis.call('HSET', KEYS[1], 'cluster', ARGV[1], 'epoch', ARGV[2], 'incarnation', ARGV[3],
  'former_epoch', former[1], 'former_incarnation', former[2])
return {'claimed', former[1], former[2], fence[4] or '0', fence[5] or '0', fence[6] or '',
  fence[7] or '0', fence[8] or '0'}
