import { afterAll, beforeAll, describe, test } from 'vitest'
import { drillPostgres, POSTERN_TOOL } from '../../docs/restore-drill.ts'
import { Parts } from '../../support/parts.ts'
import type { RecordingUpstream } from '../../support/recording-upstream.ts'
import type { RedisServer } from '../../support/redis-server.ts'
import { CURL, has, JQ, POSTGRES } from '../../support/tools.ts'

const parts = new Parts()
let redis: RedisServer
let upstream: RecordingUpstream
beforeAll(async () => {
  redis = await parts.redis()
  upstream = await parts.upstream()
})
afterAll(() => parts.stop())

describe.skipIf(![CURL, JQ, POSTGRES].every(has))('a restored PostgreSQL database', () => {
  test('gives the statuses of the drill with postern', () =>
    drillPostgres({ redis, upstream }, POSTERN_TOOL, true))
})
