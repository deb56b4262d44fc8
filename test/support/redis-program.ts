/** The server that the tests start: `redis-server`, or what `POSTERN_TEST_REDIS` names, such as the path of a valkey-server. */
export const REDIS_PROGRAM = process.env['POSTERN_TEST_REDIS'] || 'redis-server'
