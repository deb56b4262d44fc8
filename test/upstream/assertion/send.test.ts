import { afterEach, expect, test } from 'vitest'
import type { Assertions } from '../../../src/upstream/assertion/assertions.ts'
import {
  FILES_PATH,
  type ForwardingApp,
  type ForwardingOptions,
  startForwardingApp,
  WORKSPACE_PATH,
} from '../../support/forwarding-app.ts'
import { get } from '../../support/http-client.ts'
import { json, type ScriptedUpstream, startScriptedUpstream } from '../../support/scripted-upstream.ts'
import { settled, until } from '../../support/until.ts'

let upstream: ScriptedUpstream
let gateway: ForwardingApp

async function start(assertionFor: Assertions['assertionFor'], options: ForwardingOptions = {}) {
  upstream = await startScriptedUpstream(request => request.send(json('{}', options.coalesce ? VARY : '')))
  gateway = await startForwardingApp(upstream.url, {}, { assertions: { assertionFor }, ...options })
}
const VARY = 'Vary: X-Postern-Assertion\r\n'

afterEach(async () => {
  await gateway.stop()
  await upstream.stop()
})

const assertionsSeen = () => upstream.requests.map(({ headers }) => headers.get('x-postern-assertion'))

test('a request carries its assertion, and none that the client sent in any form', async () => {
  await start(() => 'signed')
  const forged = { 'x-postern-assertion': 'f', X_Postern_Assertion: 'g', 'x.postern.assertion': 'h' }
  expect(await get(gateway.port, WORKSPACE_PATH, forged)).toMatchObject({ status: 200 })
  const [request] = upstream.requests
  expect([...(request?.headers ?? [])].filter(([name]) => /assertion/i.test(name))).toEqual([
    ['x-postern-assertion', 'signed'],
  ])
})

test('an assertion is for the path and query that the upstream receives', async () => {
  const targets: string[] = []
  await start((_grant, target) => {
    targets.push(target)
    return 'signed'
  })
  await get(gateway.port, `${FILES_PATH}?limit=5`)
  expect(targets).toEqual([`${FILES_PATH}?limit=5`])
  expect(upstream.requests[0]?.target).toBe(`${FILES_PATH}?limit=5`)
})

test('a request waits for its signature', async () => {
  const signature = Promise.withResolvers<string>()
  await start(() => signature.promise)
  const answer = get(gateway.port, WORKSPACE_PATH)
  await until('the request was permitted', () => gateway.requests.length === 1)
  await settled()
  expect(upstream.requests).toHaveLength(0)
  signature.resolve('signed late')
  expect(await answer).toMatchObject({ status: 200 })
  expect(assertionsSeen()).toEqual(['signed late'])
})

test.each([false, true])(
  'a request that cannot be signed gets 500 and is not sent (coalesced: %s)',
  async coalesce => {
    await start(() => Promise.reject(new Error('no')), { coalesce })
    const answer = await get(gateway.port, WORKSPACE_PATH)
    expect(answer).toMatchObject({ status: 500 })
    expect(answer.text).toContain('internal_error')
    expect(upstream.requests).toHaveLength(0)
    expect(gateway.requests[0]?.observation).toMatchObject({ fault: 'assertion' })
  },
)

test('a request whose client disconnects before it is signed is not sent', async () => {
  const signature = Promise.withResolvers<string>()
  await start(() => signature.promise)
  const controller = new AbortController()
  const { signal } = controller
  const aborted = fetch(`http://127.0.0.1:${gateway.port}${WORKSPACE_PATH}`, { signal }).catch(
    () => 'aborted',
  )
  await until('the request was permitted', () => gateway.requests.length === 1)
  controller.abort()
  expect(await aborted).toBe('aborted')
  await until('its connection is closed', () => gateway.requests[0]?.response.destroyed)
  signature.resolve('signed late')
  await settled()
  expect(await get(gateway.port, WORKSPACE_PATH)).toMatchObject({ status: 200 })
  expect(upstream.requests).toHaveLength(1)
})

test('a response that depends on the assertion is not shared between requests', async () => {
  let count = 0
  const signature = Promise.withResolvers<string>()
  await start(() => (++count === 1 ? signature.promise : `signed ${count}`), { coalesce: true })
  const answers = [get(gateway.port, WORKSPACE_PATH), get(gateway.port, WORKSPACE_PATH)]
  await until('both requests were permitted', () => gateway.requests.length === 2)
  signature.resolve('signed 1')
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200])
  expect(assertionsSeen()).toEqual(['signed 1', 'signed 2'])
})
