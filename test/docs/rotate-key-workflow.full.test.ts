import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { CURL, has, JQ } from '../support/tools.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'
import { type Contexts, WorkflowJob } from './workflow-job.ts'

const FILE = 'docs/keys-as-code/rotate-key.yml'
const CONFIRM = 'Confirm that the gateway accepts the new key'
const STORE = 'Store the new secret'
const REVOKE = 'Revoke the old key'
const DAY_MS = 86_400_000
const SECRET = /wsk_\w+/

let world: World
let token: string
beforeAll(async () => {
  world = await startWorld()
  const permissions = {
    name: 'rotation',
    permissions: ['keys:write'],
    workspaces: ['ws_1'],
    expiresInDays: 1,
  }
  token = String((await world.admin('POST', '/tokens', permissions)).json['secret'])
})
afterAll(() => world?.stop())

/** What GitHub gives to a run that a person starts with "now". */
function contexts(secret: string, more: Contexts = {}): Contexts {
  return {
    'vars.POSTERN_CONSOLE_URL': world.console.urls.console,
    'vars.POSTERN_API_URL': world.gateway.urls.gateway,
    'secrets.POSTERN_ADMIN_TOKEN': token,
    'secrets.ORDERS_API_KEY': secret,
    'inputs.now': 'true',
    ...more,
  }
}

interface ShownKey {
  readonly id: string
  readonly state: string
  readonly expiresAt: string
  readonly replacedBy: string | null
}

async function keyOf(id: string): Promise<ShownKey> {
  return (await world.admin('GET', `/keys/${id}`)).json['key'] as ShownKey
}

async function successorOf({ id }: Pick<IssuedKey, 'id'>): Promise<ShownKey> {
  const { replacedBy } = await keyOf(id)
  if (replacedBy === null) throw new Error(`${id} is not replaced`)
  return await keyOf(replacedBy)
}

/** @returns the id of the key as the gateway describes it, or the status of its refusal */
async function atGateway(secret: string): Promise<string | number> {
  const headers = { authorization: `Bearer ${secret}` }
  const response = await fetch(`${world.gateway.urls.gateway}/api/v1/auth`, { headers })
  return response.ok ? ((await response.json()) as { keyId: string }).keyId : response.status
}

/** @returns the address of a relay to the console that answers the first rotation with 503 after the console has carried it out */
async function relayThatLosesARotation(): Promise<string> {
  let lost = false
  const relay = createServer(async (request, response) => {
    const { method = 'GET', url = '/', headers } = request
    const fields = ['authorization', 'content-type', 'idempotency-key'] as const
    const sent = fields.flatMap(name => (headers[name] === undefined ? [] : [[name, String(headers[name])]]))
    const body = await text(request)
    const init = { method, headers: Object.fromEntries(sent), ...(body === '' ? {} : { body }) }
    const answer = await fetch(`${world.console.urls.console}${url}`, init)
    const loses = !lost && url.endsWith('/rotate')
    if (loses) lost = true
    response.writeHead(loses ? 503 : answer.status).end(loses ? '' : await answer.text())
  })
  onTestFinished(() => void relay.close())
  await once(relay.listen(0, '127.0.0.1'), 'listening')
  return `http://127.0.0.1:${(relay.address() as AddressInfo).port}`
}

const endsWithin = ({ expiresAt }: ShownKey, days: number) =>
  Date.parse(expiresAt) - Date.now() < days * DAY_MS

describe.skipIf(![CURL, JQ].every(has))('the workflow that rotates a key', () => {
  test('stores a new key that works, and then revokes the old one', async () => {
    const [job, old] = [new WorkflowJob(FILE, 'rotate'), await world.issue()]
    const { failed } = await job.run(contexts(old.secret))

    expect(failed).toBeNull()
    const successor = await successorOf(old)
    expect(await atGateway(job.stored('ORDERS_API_KEY') ?? '')).toBe(successor.id)
    expect(successor.state).toBe('active')
    expect([(await keyOf(old.id)).state, await atGateway(old.secret)]).toEqual(['revoked', 401])
  })

  test('prints the new secret only in the line that masks it', async () => {
    const [job, old] = [new WorkflowJob(FILE, 'rotate'), await world.issue()]
    const { log } = await job.run(contexts(old.secret))
    const masked = `::add-mask::${job.stored('ORDERS_API_KEY')}`
    expect(log.split('\n')).toContain(masked)
    expect(log.replace(masked, '')).not.toMatch(SECRET)
    expect(log).not.toContain(token)
  })

  test('leaves a key alone that is not due', async () => {
    const [job, old] = [new WorkflowJob(FILE, 'rotate'), await world.issue()]
    const { steps, failed, log } = await job.run(contexts(old.secret, { 'inputs.now': '' }))
    expect([steps, failed]).toEqual([['Rotate the key if it is due'], null])
    expect(log).toContain(`${old.id} is not due`)
    expect(await atGateway(old.secret)).toBe(old.id)
  })

  test('keeps the old key working where the new secret cannot be stored, and the next scheduled run repairs it', async () => {
    const old = await world.issue()
    const interrupted = new WorkflowJob(FILE, 'rotate')
    interrupted.failToStore()
    expect((await interrupted.run(contexts(old.secret))).failed).toBe(STORE)
    expect(interrupted.stored('ORDERS_API_KEY')).toBeNull()
    expect(await atGateway(old.secret)).toBe(old.id)
    const lost = await successorOf(old)

    const next = new WorkflowJob(FILE, 'rotate')
    expect((await next.run(contexts(old.secret, { 'inputs.now': '' }))).failed).toBeNull()
    const stored = await successorOf(lost)
    expect(await atGateway(next.stored('ORDERS_API_KEY') ?? '')).toBe(stored.id)
    expect(await atGateway(old.secret)).toBe(401)
    // Its secret was in no store. It ends with the overlap.
    const ending = await keyOf(lost.id)
    expect([ending.state, endsWithin(ending, 7.1)]).toEqual(['retiring', true])
  })

  test('rotates once where the response with the secret is lost, and the next run repairs it', async () => {
    const [job, old] = [new WorkflowJob(FILE, 'rotate'), await world.issue()]
    const relay = { 'vars.POSTERN_CONSOLE_URL': await relayThatLosesARotation() }
    const { failed, log } = await job.run(contexts(old.secret, relay))
    expect([failed, log]).toEqual([
      'Rotate the key if it is due',
      expect.stringContaining('The response with the secret was lost'),
    ])
    const lost = await successorOf(old)
    expect([lost.replacedBy, await atGateway(old.secret)]).toEqual([null, old.id])

    expect((await job.run(contexts(old.secret, { 'inputs.now': '' }))).failed).toBeNull()
    expect(await atGateway(job.stored('ORDERS_API_KEY') ?? '')).toBe((await successorOf(lost)).id)
  })

  test('lets the overlap end the old key where a run stops before it revokes', async () => {
    const [job, old] = [new WorkflowJob(FILE, 'rotate'), await world.issue()]
    await job.run(contexts(old.secret), STORE)
    const ending = await keyOf(old.id)
    expect([ending.state, endsWithin(ending, 7.1)]).toEqual(['retiring', true])

    const secret = job.stored('ORDERS_API_KEY') ?? ''
    const { log } = await job.run(contexts(secret, { 'inputs.now': '' }))
    expect(log).toContain('is not due')
    expect(await atGateway(secret)).toBe((await successorOf(old)).id)
  })

  test('stores nothing where the gateway does not accept the new key', async () => {
    const [job, old] = [new WorkflowJob(FILE, 'rotate'), await world.issue()]
    const elsewhere = { 'vars.POSTERN_API_URL': `${world.gateway.urls.gateway}/elsewhere` }
    const { failed } = await job.run(contexts(old.secret, elsewhere))
    expect([failed, job.stored('ORDERS_API_KEY')]).toEqual([CONFIRM, null])
    expect(await atGateway(old.secret)).toBe(old.id)
  })

  test('says why the console rejects a rotation', async () => {
    const [job, old] = [new WorkflowJob(FILE, 'rotate'), await world.issue()]
    await world.revoke(old.id)
    const { failed, log } = await job.run(contexts(old.secret))
    expect([failed, log]).toEqual([
      'Rotate the key if it is due',
      expect.stringContaining('"code":"conflict"'),
    ])
  })

  test('has the steps that these tests name', () => {
    const { steps } = new WorkflowJob(FILE, 'rotate')
    expect(steps.slice(1)).toEqual([CONFIRM, STORE, REVOKE])
  })
})
