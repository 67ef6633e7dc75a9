-- ARGV: 5 epoch, 6 and 7 node and milliseconds of a reservation (empty and 0 for none),
-- 8 whether an earlier try of this call may have happened.
local is_this_reign = reign and is_reign_of_caller() and text(reign.epoch) == ARGV[5]
if not holder then
  if ARGV[8] == '1' and is_this_reign and reign.phase == 'released' then
    return {'unlocked'}
  end
  return {'not_held'}
end
if not (recorded and is_this_reign) then
  return held()
end
-- First, for it is not refused when memory is full, and all that follows is then allowed as well.
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[2], 'phase', 'released', 'server', server, 'reserved_node', ARGV[6],
  'reserved_until', text(now + tonumber(ARGV[7])), 'reserved_ms', ARGV[7])
wake('released')
return {'unlocked'}
