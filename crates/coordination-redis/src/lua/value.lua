-- What the value scripts share. KEYS[1] is the value: a plain string, so that other tools read and
-- write it. KEYS[2] is a hash with the last version and a digest of the text it belongs to. It
-- outlives the value for a day, so that versions rise across deletion; after that they start at
-- the wall clock, which is higher still.
local DAY_MS = 86400000

local value = redis.call('GET', KEYS[1])
local fields = redis.call('HMGET', KEYS[2], 'version', 'digest')
local last = tonumber(fields[1] or '')
local version = nil
if value then
  local digest = redis.sha1hex(value)
  version = last
  if not last or fields[2] ~= digest then
    -- Somebody else has written it.
    version = (last or now) + 1
    last = version
    redis.call('HSET', KEYS[2], 'version', text(version), 'digest', digest)
  end
end

-- Whether the version is what ARGV[1] wants: `any`, `absent` or a number.
local function admits()
  if ARGV[1] == 'any' then
    return true
  elseif ARGV[1] == 'absent' then
    return not version
  end
  return version and text(version) == ARGV[1]
end

