import { expect, onTestFinished, test } from 'vitest'
import { startConsoleWithCommands } from '../support/console-commands.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { breaksOff, ScriptedAdmin, says } from '../support/scripted-admin.ts'

const ADDRESS = 'https://8.8.8.8/in'

test('webhooks set prints the secret alone on standard output; show, test and remove work on the workspace', async () => {
  const site = await startConsoleWithCommands({ workspaceWebhooks: { enabled: true } })
  const run = (name: string, ...words: string[]) =>
    site.postern('webhooks', name, ...words, '--workspace', 'ws_1')
  expect(await run('show')).toMatchObject({ code: 0, stdout: 'Workspace ws_1 has no webhook.' })
  const set = await run('set', ADDRESS)
  expect([set.code, set.stdout]).toEqual([0, expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/)])
  expect(set.stderr).toContain('shown only once')
  expect((await run('show')).stdout).toMatch(/^https:\/\/8\.8\.8\.8\/in, set .* UTC by admin-token$/)
  expect(JSON.parse((await run('show', '--json')).stdout).webhook.url).toBe(ADDRESS)
  expect((await run('remove', '--yes')).stdout).toBe('Removed the webhook of workspace ws_1.')
  expect((await run('remove', '--yes')).stdout).toBe('Nothing to remove.')
  expect(await run('test')).toMatchObject({ stdout: '', stderr: expect.stringContaining('has no webhook') })
  const refused = await run('set', 'https://10.0.0.1/')
  expect([refused.code === 0, refused.stderr.includes('url must be')]).toEqual([false, true])
})

test('webhooks remove loses a secret, so it asks: without a terminal or --yes it removes nothing', async () => {
  const site = await startConsoleWithCommands({ workspaceWebhooks: { enabled: true } })
  await site.postern('webhooks', 'set', ADDRESS, '--workspace', 'ws_1')
  const { code, stderr } = await site.postern('webhooks', 'remove', '--workspace', 'ws_1')
  expect([code, stderr]).toEqual([64, expect.stringContaining('add --yes to remove a webhook without one')])
  expect((await site.postern('webhooks', 'show', '--workspace', 'ws_1')).stdout).toContain(ADDRESS)
})

test('webhooks set does not say that its secret is stored nowhere: the console signs events with it', async () => {
  const admin = await ScriptedAdmin.start()
  onTestFinished(() => admin.stop())
  const webhook = { url: ADDRESS, createdAt: '2026-11-20T09:00:00.000Z', createdBy: 'admin-token' }
  admin.answers(says(200, { webhook: null }), says(201, { webhook, secret: 'whsec_AAAA' }))
  const { code, stdout, stderr } = await runPosternHere(
    ['webhooks', 'set', ADDRESS, '--workspace', 'ws_1'],
    admin.env,
  )
  expect([code, stdout]).toEqual([0, 'whsec_AAAA'])
  expect(stderr).toContain('It is shown only once: save it now.')
})

test('webhooks remove does not say that there was none where its first request may have removed it', async () => {
  const admin = await ScriptedAdmin.start()
  onTestFinished(() => admin.stop())
  const run = () => runPosternHere(['webhooks', 'remove', '--workspace', 'ws_1', '--yes'], admin.env)
  admin.answers(breaksOff, says(200, { removed: false }))
  expect(await run()).toMatchObject({ code: 0, stdout: expect.stringContaining('may have removed it') })
  admin.answers(breaksOff, says(200, { removed: true }))
  expect((await run()).stdout).toBe('Removed the webhook of workspace ws_1.')
  admin.answers(says(200, { removed: false }))
  expect((await run()).stdout).toBe('Nothing to remove.')
})

test('webhooks test says whether the test is sent: of several within a minute one is', async () => {
  const admin = await ScriptedAdmin.start()
  onTestFinished(() => admin.stop())
  const run = () => runPosternHere(['webhooks', 'test', '--workspace', 'ws_1'], admin.env)
  admin.answers(says(200, { url: ADDRESS, sent: true }), says(200, { url: ADDRESS, sent: false }))
  expect(await run()).toMatchObject({ code: 0, stdout: `A test is sent to ${ADDRESS}.` })
  expect(await run()).toMatchObject({
    code: 65,
    stdout: '',
    stderr: expect.stringMatching(/No second test is sent to .*Try again after the next full minute/),
  })
  admin.answers(says(200, { url: ADDRESS, sent: false }))
  const json = await runPosternHere(['webhooks', 'test', '--workspace', 'ws_1', '--json'], admin.env)
  expect([json.code, json.stdout, JSON.parse(json.stderr).code]).toEqual([65, '', 'rejected'])
})
