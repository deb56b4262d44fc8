import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'
import { childProcesses } from '../support/child-processes.ts'
import { Parts } from '../support/parts.ts'
import { PosternProcess } from '../support/postern-process.ts'
import { end, isRunning, ready } from '../support/ready.ts'
import { ClusterGroup } from '../support/redis-cluster.ts'
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

test('where a cluster cannot be formed, tests leave none of its nodes behind', async () => {
  const before = new Set(childProcesses())
  const start = ClusterGroup.start({ replicas: 0, settings: ['--cluster-enabled', 'no'] })
  await expect(start).rejects.toThrow('cluster support disabled')
  expect(childProcesses().filter(pid => !before.has(pid))).toEqual([])
})

test('a line counts that a program has written, though its end is known here before the line is read', async () => {
  // The last lines are of a second process, which waits until the end of the first one is known.
  const script = '(while kill -0 $$ 2>/dev/null; do :; done; echo late; echo last) & echo first'
  const program = new PosternProcess([], {}, ['sh', '-c', script])
  expect(await program.line(line => line === 'last')).toBe('last')
  expect(await program.exited).toMatchObject({ code: 0, stdout: 'first\nlate\nlast' })
  await expect(program.line(line => line === 'none')).rejects.toThrow('ended without the expected line')
})

const never = async () => false
const failing = async () => {
  throw new Error('its answer is wrong')
}
test.each([
  ['answers wrongly', process.execPath, 'setInterval(() => {}, 1000)', failing, 'its answer is wrong'],
  ['ends by itself', process.execPath, 'process.exit(3)', never, 'ended before it was ready: exit code 3'],
  ['is not installed', 'postern-missing-program', '', never, 'ENOENT'],
])(
  'a program that %s when it starts is ended, and the error says why',
  async (_, program, code, isReady, why) => {
    const child = spawn(program, ['-e', code], { stdio: 'ignore' })
    let stopped = 0
    const part = {
      stop: async () => {
        stopped++
        await end(child)
      },
    }
    await expect(ready(part, child, isReady)).rejects.toThrow(why)
    expect([stopped, isRunning(child)]).toEqual([1, false])
  },
)
