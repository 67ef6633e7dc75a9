-- Everything is read and checked before the first write, for Redis rolls nothing back.

-- Never tostring: it prints large numbers as 1e+15.
local function text(number)
  return string.format('%.0f', number)
end

