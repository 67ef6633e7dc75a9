-- What every script starts with: the server must be the primary, and its time is read once.

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

