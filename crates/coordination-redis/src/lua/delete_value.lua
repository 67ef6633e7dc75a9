if not value then
  return {'absent'}
end
if not admits() then
  return {'conflict', text(version)}
end
redis.call('DEL', KEYS[1])
redis.call('PEXPIRE', KEYS[2], text(DAY_MS))
return {'deleted'}
