import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CURL, has, JQ } from '../support/tools.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'
import { type Contexts, WorkflowJob } from './workflow-job.ts'

const FILE = 'docs/keys-as-code/rotate-key.yml'
const CONFIRM = 'Confirm that the gateway accepts the new key'
const STORE = 'Store the new secret'
const REVOKE = 'Revoke the old key'
const TIMEOUT_MS = 120_000
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
}, TIMEOUT_MS)
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

const endsWithin = ({ expiresAt }: ShownKey, days: number) =>
  Date.parse(expiresAt) - Date.now() < days * DAY_MS

describe.skipIf(![CURL, JQ].every(has))('the workflow that rotates a key', { timeout: TIMEOUT_MS }, () => {
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
