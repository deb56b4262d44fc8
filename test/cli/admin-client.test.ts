import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { AdminClient } from '../../src/cli/client/client.ts'
import type { NoResponseError } from '../../src/cli/client/failures.ts'
import { makeCertificates } from '../support/certificates.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { PosternProcess, runPostern } from '../support/postern-process.ts'
import { keyJson, ScriptedAdmin, says, TOKEN } from '../support/scripted-admin.ts'

async function startAdmin(): Promise<ScriptedAdmin> {
  const admin = await ScriptedAdmin.start()
  onTestFinished(() => admin.stop())
  return admin
}

test('a request without a response fails at its deadline, and may have been processed', async () => {
  const admin = await startAdmin()
  admin.answers(() => {})
  const client = new AdminClient({ url: admin.url, token: TOKEN })
  const error: NoResponseError = await client.send({ method: 'POST', path: '/sync', deadlineMs: 50 }).then(
    () => expect.unreachable(),
    error => error,
  )
  expect(error.message).toBe(`The console at ${admin.url} did not respond within 0.05 seconds`)
  expect([error.exitCode, error.mayHaveBeenProcessed]).toEqual([69, true])
})

test('a response whose body does not end fails at the deadline', async () => {
  const admin = await startAdmin()
  admin.answers((_, response) => void response.writeHead(200).write('{'))
  const client = new AdminClient({ url: admin.url, token: TOKEN })
  await expect(client.send({ method: 'GET', path: '/keys', deadlineMs: 50 })).rejects.toThrow(
    /did not respond/,
  )
})

test('each command has an idempotency key of its own', async () => {
  const admin = await startAdmin()
  admin.answers(says(201, {}))
  const client = new AdminClient({ url: admin.url, token: TOKEN })
  for (let i = 0; i < 2; i++) await client.send({ method: 'POST', path: '/x', once: true })
  await client.send({ method: 'POST', path: '/x' })
  const [first, second, third] = admin.requests.map(({ headers }) => headers['idempotency-key'])
  expect(first).not.toBe(second)
  expect(third).toBeUndefined()
})

test('the certificate of the console is verified, against an authority that can be named', async () => {
  const certificates = await makeCertificates()
  const server = createServer(certificates.server, (_, response) => {
    response.end('{"keys":[]}')
  }).listen(0, '127.0.0.1')
  onTestFinished(() => {
    server.close()
    certificates.remove()
  })
  await once(server, 'listening')
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  const env = { POSTERN_CONSOLE_URL: url, POSTERN_ADMIN_TOKEN: TOKEN }
  const list = ['keys', 'list', '--workspace', 'ws_1']
  const refused = await runPostern(list, env)
  expect(refused).toMatchObject({ code: 69, stderr: expect.stringContaining('NODE_EXTRA_CA_CERTS') })
  expect((await runPostern(list, { ...env, NODE_EXTRA_CA_CERTS: certificates.caFile })).code).toBe(0)
})

const UNAVAILABLE = { code: 'database_unavailable', error: 'The database did not confirm the change' }
const LOST = 'key_01JD0000000000000000000000'

/** As the console does, but without a pause. */
const isUnavailable =
  (more: object = {}) =>
  (_: unknown, response: ServerResponse) => {
    const headers = { 'content-type': 'application/json', 'retry-after': '0' }
    response.writeHead(503, headers).end(JSON.stringify({ ...UNAVAILABLE, ...more }))
  }

test('a command is repeated with its idempotency key while the database is unavailable', async () => {
  const admin = await startAdmin()
  admin.answers(isUnavailable({ keyId: LOST }), isUnavailable(), says(201, { key: keyJson(), secret: null }))
  const args = ['keys', 'issue', '--workspace', 'ws_1', '--scope', 'files:read']
  const { code, stderr } = await runPosternHere(args, admin.env)
  expect([code, stderr.includes(LOST)]).toEqual([1, true])
  expect(admin.requests).toHaveLength(3)
  expect(new Set(admin.requests.map(({ headers }) => headers['idempotency-key'])).size).toBe(1)
})

test.each([
  ['keys issue --workspace ws_1 --scope files:read', { keyId: LOST }, `postern keys revoke ${LOST}`],
  [`keys rotate ${LOST}`, { keyId: LOST }, `postern keys revoke ${LOST}`],
  [
    'tokens issue --name a --permission keys:read',
    { tokenId: LOST.replace('key', 'tok') },
    'postern tokens revoke tok_',
  ],
])(
  '%s names what may have been made, how to end it, and how to repeat it safely',
  async (line, about, remedy) => {
    const admin = await startAdmin()
    admin.answers(isUnavailable(about), isUnavailable())
    const args = line.split(' ')
    const first = await runPosternHere(args, admin.env)
    const key = String(admin.requests[0]?.headers['idempotency-key'])
    expect([first.code, first.stdout]).toEqual([69, ''])
    expect(first.stderr).toContain(remedy)
    expect(first.stderr).toContain(`--idempotency-key ${key}`)
    await runPosternHere([...args, '--idempotency-key', key], admin.env)
    expect(new Set(admin.requests.map(({ headers }) => headers['idempotency-key']))).toEqual(new Set([key]))
  },
)

test('a key that was issued without a name is found a minute later: the message has its name, which is the time', async () => {
  const admin = await startAdmin()
  admin.answers(isUnavailable({ keyId: LOST }))
  const issue = ['keys', 'issue', '--workspace', 'ws_1', '--scope', 'files:read']
  const { stderr } = await runPosternHere(issue, admin.env)
  const [request] = admin.requests
  const [, key, name] = /--idempotency-key (\S+) --name "(cli [^"]+)"/.exec(stderr) ?? []
  expect([request?.headers['idempotency-key'], request?.body]).toMatchObject([key, { name }])
  const named = await runPosternHere([...issue, '--name', 'own'], admin.env)
  expect(named.stderr).not.toContain('--name')
})

test('Ctrl-C while the console may be issuing a key or token says how to find it', async () => {
  const admin = await startAdmin()
  for (const [line, advice] of [
    ['keys issue --workspace ws_1 --scope files:read', 'postern keys list --workspace ws_1'],
    [`keys rotate ${LOST}`, `postern keys show ${LOST}`],
    ['tokens issue --name a --permission keys:read', 'postern tokens list'],
  ] as const) {
    admin.answers(() => void issuing.child.kill('SIGINT'))
    const issuing = new PosternProcess(line.split(' '), admin.env)
    const { code, stdout, stderr } = await issuing.exited
    expect([code, stdout]).toEqual([130, ''])
    expect(stderr).toContain(advice)
    expect(stderr).toContain(`--idempotency-key ${admin.requests[0]?.headers['idempotency-key']}`)
  }
})
