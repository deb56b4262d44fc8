import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'
import { Parts } from '../support/parts.ts'
import type { RedisServer } from '../support/redis-server.ts'

test('where one part of an installation does not start, tests leave no process and no file of the others behind', async () => {
  let redis: RedisServer | undefined
  let database = ''
  const start = Parts.start(async parts => {
    redis = await parts.redis()
    database = (await parts.sqlite()).replace('sqlite:', '')
    await parts.gateway({ POSTERN_UPSTREAM_URL: 'no address' })
  })
  await expect(start).rejects.toThrow('POSTERN_UPSTREAM_URL')
  expect([redis?.isRunning, existsSync(database.replace('/postern.db', ''))]).toEqual([false, false])
})
