import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Haproxy } from '../support/haproxy.ts'
import { HAPROXY, has } from '../support/tools.ts'
import { startWorld, type World } from '../support/world.ts'

const CLIENT = '127.0.0.9'
const OUTER = '127.0.0.3'
const INNER = '127.0.0.2'
const UNTRUSTED = '127.0.0.66'

describe.skipIf(!has(HAPROXY))('a key with allowed networks, behind two proxies', () => {
  let world: World
  let outer: Haproxy
  let untrusted: Haproxy
  const directory = mkdtempSync(join(tmpdir(), 'postern-proxies-'))
  const proxies: Haproxy[] = []

  beforeAll(async () => {
    world = await startWorld({ POSTERN_GATEWAY_TRUSTED_PROXIES: `${INNER},${OUTER}` })
    const portOf = (url: string) => Number(new URL(url).port)
    const opsPort = portOf(world.gateway.urls.ops)
    const start = async (url: string, source: string) => {
      const proxy = await Haproxy.start(directory, [{ port: portOf(url), opsPort }], source)
      proxies.push(proxy)
      return proxy
    }
    const inner = await start(world.gateway.urls.gateway, INNER)
    outer = await start(inner.url, OUTER)
    untrusted = await start(world.gateway.urls.gateway, UNTRUSTED)
  })
  afterAll(async () => {
    await Promise.all(proxies.map(proxy => proxy.stop()))
    await world.stop()
    rmSync(directory, { recursive: true })
  })

  /** Sends a request with a new key from an address of this machine. */
  async function send(url: string, allowedCidrs: string[], claimed?: string) {
    const { secret } = await world.issue({ allowedCidrs })
    const forwarded = claimed === undefined ? {} : { 'x-forwarded-for': claimed }
    const headers = { authorization: `Bearer ${secret}`, ...forwarded }
    const sent = request(`${url}/api/v1/auth`, { localAddress: CLIENT, headers, agent: false })
    sent.end()
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    const { error } = JSON.parse(await text(answer)) as { error?: string }
    return [answer.statusCode, error]
  }
  const rejected = (address: string) => [403, `The API key must not be used from ${address}`]

  test('works from its networks through the whole chain, and nowhere else', async () => {
    expect(await send(outer.url, [CLIENT])).toEqual([200, undefined])
    expect(await send(outer.url, [`::ffff:${CLIENT}/128`])).toEqual([200, undefined])
    expect(await send(outer.url, [OUTER, INNER])).toEqual(rejected(CLIENT))
  })

  test('does not work for a client that claims to be elsewhere', async () => {
    for (const claimed of ['198.51.100.7', `198.51.100.7, ${INNER}`, '::ffff:c633:6407']) {
      expect(await send(outer.url, ['198.51.100.0/24'], claimed)).toEqual(rejected(CLIENT))
      expect(await send(world.gateway.urls.gateway, ['198.51.100.0/24'], claimed)).toEqual(rejected(CLIENT))
    }
  })

  test('behind a proxy that is not trusted, the address is the proxy’s', async () => {
    expect(await send(untrusted.url, [CLIENT])).toEqual(rejected(UNTRUSTED))
    expect(await send(untrusted.url, [UNTRUSTED], CLIENT)).toEqual([200, undefined])
  })
})
