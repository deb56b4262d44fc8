import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { exchange, field, get } from '../support/raw-client.ts'
import { jsonAnswer, RecordingUpstream } from '../support/recording-upstream.ts'
import { has, VARNISH } from '../support/tools.ts'
import { type Temper, Varnish } from '../support/varnish.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

/** Upstream header fields that a shared cache could take as permission to store a response. */
const INVITATIONS: readonly (readonly [string, readonly string[]])[] = [
  ['no cache fields', []],
  ['public', ['Cache-Control: public, max-age=3600']],
  ['s-maxage', ['Cache-Control: s-maxage=3600']],
  ['must-revalidate', ['Cache-Control: max-age=3600, must-revalidate']],
  ['Surrogate-Control', ['Surrogate-Control: max-age=3600', 'CDN-Cache-Control: max-age=3600']],
  ['Expires', ['Expires: Fri, 01 Jan 2100 00:00:00 GMT']],
]

describe.skipIf(!has(VARNISH)).each<Temper>(['careful', 'greedy'])('behind a %s Varnish', temper => {
  let world: World
  let varnish: Varnish
  let directory: string
  beforeAll(async () => {
    world = await startWorld()
    directory = mkdtempSync(join(tmpdir(), 'postern-varnish-'))
    varnish = await Varnish.start(directory, world.gateway.urls.gateway, temper)
  })
  afterAll(async () => {
    await varnish.stop()
    rmSync(directory, { recursive: true, force: true })
    await world.stop()
  })

  /** An order in which each request could get the stored response of the one before. */
  async function askAll(path: string, keys: readonly IssuedKey[]): Promise<(readonly [number, string])[]> {
    const [first, second] = keys.map(key => key.secret)
    const answers = []
    for (const key of [first, second, undefined, first, second]) {
      const { status, body } = await exchange(varnish.url, get(path, key, 'Connection: close'))
      const json = JSON.parse(body) as { workspaceId?: string; id?: string; code?: string }
      answers.push([status, json.workspaceId ?? json.id ?? json.code ?? ''] as const)
    }
    return answers
  }

  test.each(INVITATIONS)(
    'no response is served to another key if the upstream sends %s',
    async (_, lines) => {
      const [own, other] = [`ws_${randomUUID()}`, `ws_${randomUUID()}`]
      const keys = [await world.issue({ workspaceId: own }), await world.issue({ workspaceId: other })]
      world.upstream.reset()
      world.upstream.answer = () => jsonAnswer(200, JSON.stringify({ id: own }), ...lines)
      expect(await askAll(`/api/v1/workspaces/${own}`, keys)).toEqual([
        [200, own],
        [404, 'not_found'],
        [401, 'key_missing'],
        [200, own],
        [404, 'not_found'],
      ])
      // Responses about the key itself are requested every time.
      expect(world.upstream.requests).toHaveLength(2)
      // One URL, a different response for each key.
      expect(await askAll('/api/v1/auth', keys)).toEqual([
        [200, own],
        [200, other],
        [401, 'key_missing'],
        [200, own],
        [200, other],
      ])
    },
  )

  test('a path that looks like a file is no route, and its rejection is not stored', async () => {
    const { secret } = await world.issue({ workspaceId: 'ws_1' })
    world.upstream.reset()
    for (const path of ['/files/x.css', '.css', '/x.js', ';x.css']) {
      const target = `/api/v1/workspaces/ws_1${path}`
      const answer = await exchange(varnish.url, get(target, secret, 'Connection: close'))
      expect([answer.status, field(answer, 'cache-control')]).toEqual([404, 'no-store'])
    }
    expect(world.upstream.requests).toEqual([])
  })
})

test.skipIf(!has(VARNISH))(
  'a greedy Varnish would store such responses if they came from the upstream directly',
  async () => {
    const directory = mkdtempSync(join(tmpdir(), 'postern-varnish-'))
    const upstream = await RecordingUpstream.start()
    const varnish = await Varnish.start(directory, upstream.url, 'greedy')
    const before = upstream.requests.length
    for (const key of ['one', 'other']) {
      upstream.answer = () => jsonAnswer(200, JSON.stringify({ key }))
      const { body } = await exchange(varnish.url, get('/same', key, 'Connection: close'))
      expect(body).toBe('{"key":"one"}')
    }
    expect(upstream.requests.length).toBe(before + 1)
    await varnish.stop()
    await upstream.stop()
    rmSync(directory, { recursive: true, force: true })
  },
)
