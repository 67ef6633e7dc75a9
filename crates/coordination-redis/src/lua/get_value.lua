if not value then
  return {}
end
return {value, text(version), text(redis.call('PTTL', KEYS[1]))}
