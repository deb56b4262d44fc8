import { afterAll, beforeAll, describe, test } from 'vitest'
import { drillPostgres, POSTERN_TOOL } from '../../docs/restore-drill.ts'
import { RecordingUpstream } from '../../support/recording-upstream.ts'
import { RedisServer } from '../../support/redis-server.ts'
import { CURL, has, JQ, POSTGRES } from '../../support/tools.ts'

let redis: RedisServer
let upstream: RecordingUpstream
beforeAll(async () => {
  redis = await RedisServer.start()
  upstream = await RecordingUpstream.start()
})
afterAll(async () => {
  await upstream.stop()
  await redis.stop()
})

describe.skipIf(![CURL, JQ, POSTGRES].every(has))('a restored PostgreSQL database', () => {
  test('gives the statuses of the drill with postern', () =>
    drillPostgres({ redis, upstream }, POSTERN_TOOL, true))
})
