-- Reads a part of a list. KEYS: 1 meta, 2 the list. ARGV: 4 the first index, 5 the last.
local answer = {'ok'}
for index, element in ipairs(redis.call('LRANGE', KEYS[2], ARGV[4], ARGV[5])) do
  answer[index + 1] = element
end
return answer
