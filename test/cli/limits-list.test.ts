import { expect, test } from 'vitest'
import { startConsoleWithCommands } from '../support/console-commands.ts'

const QUOTA = { name: 'quota', per: 'workspace', requests: 1000, window: 'month' } as const
const MINUTE = { name: 'minute', per: 'key', requests: 60, windowSeconds: 60 } as const

test('limits list says who is close to a limit, the fullest first, with what is left and until when', async () => {
  const site = await startConsoleWithCommands({ limits: { policies: [QUOTA, MINUTE] } })
  const list = (...words: string[]) => site.postern('limits', 'list', ...words)
  const none = await list()
  expect([none.code, none.stdout]).toEqual([0, ''])
  expect(none.stderr).toMatch(/^No rate limit is used by 80 % or more/)

  const issue = ['keys', 'issue', '--scope', 'files:read', '--json', '--workspace']
  const key = JSON.parse((await site.postern(...issue, 'ws_1')).stdout).key.id
  await site.postern(...issue, 'ws_2')
  const endsAt = Date.now() + 50_000
  const until = new Date(endsAt).toISOString().slice(0, 19).replace('T', ' ')
  const limits = [
    { keyId: key, plan: null, policy: 'minute', windowSeconds: 60, requests: 60, used: 48, endsAt },
    {
      workspaceId: 'ws_2',
      plan: null,
      policy: 'quota',
      windowSeconds: null,
      requests: 1000,
      used: 1000,
      endsAt,
    },
  ]
  await site.send('POST', '/internal/v1/usage', { gateway: 'g1', sequence: 1, limits })
  const { stdout } = await list()
  const [head = '', ...rows] = stdout.trimEnd().split('\n')
  expect(head).toMatch(/^WORKSPACE +KEY +POLICY +USED +LEFT +UNTIL \(UTC\) +PLAN$/)
  expect(rows.map(row => row.split(/ {2,}/))).toEqual([
    ['ws_2', 'all keys', 'quota', '1000 of 1000', '0', until, 'none'],
    ['ws_1', key, 'minute', '48 of 60', '12', until, 'none'],
  ])
  expect((await list('-q')).stdout).toBe(`ws_2\n${key}`)
  expect((await list('-q', '--limit', '1')).stdout).toBe('ws_2')
  expect((await list('-q', '--workspace', 'ws_1')).stdout).toBe(key)
})
