-- Reads a part of a list, and whether it goes on. KEYS: 1 meta, 2 the list. ARGV: 4 the first index,
-- 5 the bytes that are enough. At least one element, when there is one.
local first, enough = tonumber(ARGV[4]), tonumber(ARGV[5])
local length = redis.call('LLEN', KEYS[2])
local answer, bytes = {'ok', ''}, 0
-- One at first: it may be large.
local count = 1
while first < length and bytes < enough do
  local part = redis.call('LRANGE', KEYS[2], text(first), text(first + count - 1))
  for _, element in ipairs(part) do
    answer[#answer + 1] = element
    bytes = bytes + #element
  end
  first = first + #part
  -- As many as are likely to fit, by what they were like so far; few, for they may get larger.
  local fit = math.floor((enough - bytes) * (#answer - 2) / math.max(bytes, 1))
  count = math.max(1, math.min(fit, 4 * count, 32))
end
answer[2] = first < length and 'more' or 'end'
return answer
