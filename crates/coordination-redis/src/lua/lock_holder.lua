if not holder then
  return {'free'}
end
return held()
