import { expect, onTestFinished, test } from 'vitest'
import { GatewayHere } from '../support/gateway-here.ts'
import { get } from '../support/raw-client.ts'
import { json, startScriptedUpstream } from '../support/scripted-upstream.ts'
import { until } from '../support/until.ts'

const PATH = '/api/v1/workspaces/ws_A'

test('a response that the upstream breaks off before its turn ends the connection after the one before it', async () => {
  const upstream = await startScriptedUpstream(() => {})
  onTestFinished(() => upstream.stop())
  const gateway = await GatewayHere.start(upstream.url)
  onTestFinished(() => gateway.stop())
  const key = gateway.issue('ws_A')
  const names = ['first', 'second', 'third']
  const client = gateway.open(names.map(name => get(PATH, key, `X-Request-Id: ${name}`)).join(''))
  await upstream.received(names.length)
  const [first, second] = names.map(name =>
    upstream.requests.find(({ headers }) => headers.get('x-request-id') === name),
  )
  second?.send(json('"whole"').slice(0, -'le"'.length))
  second?.socket.end()
  await until('it is broken off', () => gateway.lines.some(line => line['truncated'] === true))
  first?.send(json('{}'))
  expect((await client.untilClosed()).map(({ body }) => body)).toEqual(['{}'])
  expect(client.received.toString()).not.toContain('who')
  await until('all requests have ended', () => {
    const ended = gateway.lines.filter(line => line['msg'] === 'request').map(line => line['requestId'])
    return ended.sort().join() === names.join()
  })
})
