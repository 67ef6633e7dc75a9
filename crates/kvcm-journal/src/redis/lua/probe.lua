-- Whether the server takes writes: a replica refuses, and there is no such field. KEYS[1] is the meta
-- hash.
redis.call('HDEL', KEYS[1], 'probe')
return {'ok'}
