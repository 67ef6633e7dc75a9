-- What every script starts with: the server must be the primary, its time is read once, and the
-- call must not be over. The last of ARGV is the latest millisecond of the server's clock at which
-- the caller still listens: a command that was held up on its way or in a stopped server must not
-- happen after its call has been given up.

-- Never tostring: it prints large numbers as 1e+15.
local function text(number)
  return string.format('%.0f', number)
end

-- Reads are refused too: what a replica knows may be old.
local replication = redis.call('INFO', 'replication')
if not string.find(replication, 'role:master', 1, true) then
  return redis.error_reply('READONLY the server is a replica')
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[#ARGV]) then
  return redis.error_reply('KVCMLATE the call came ' .. text(now - tonumber(ARGV[#ARGV]))
    .. ' ms after its deadline')
end

