import { isIP } from 'node:net'
import { Client } from 'undici'
import type { Config } from '../config/schema/schema.ts'
import { hostAndPort } from '../outgoing/connect.ts'
import { buildUpstreamConnector, type UpstreamSettings } from '../upstream/pool/connection.ts'
import { type Address, listUpstreamTargets, resolveName } from '../upstream/pool/connector.ts'
import type { FailurePhase } from '../upstream/pool/failure.ts'
import type { SocketConnector } from '../upstream/pool/upstream-socket.ts'
import { expiryNote, peerExpiry } from './certificates.ts'
import {
  ANSWER_MS,
  type Check,
  type CheckFailure,
  type ClockReading,
  HTTP_DATE_RESOLUTION_MS,
  type Passed,
  readClock,
} from './finding.ts'
import { explainNetworkFailure } from './network-failure.ts'

const REACHED_BY = {
  server: 'the upstream',
  address: 'upstream.url or upstream.addresses',
  authority: 'upstream.tls.caFile',
}
/** Addresses of one name that are asked. */
const MAX_ASKED = 8

/** A check for each address that the settings name. */
export function upstreamChecks({ upstream }: Config): Check[] {
  const { url } = upstream
  if (url === undefined) return []
  const settings = { ...upstream, url }
  return listUpstreamTargets(settings).map(target => ({
    name: 'upstream',
    run: () => checkTarget(settings, target),
  }))
}

/** Any HTTP response shows that the upstream is there. One of several addresses suffices, as it does for the gateway. */
async function checkTarget(settings: UpstreamSettings, { host, port }: Address): Promise<Passed> {
  const where = hostAndPort(host, String(port))
  const connector = buildUpstreamConnector(settings)
  const hosts = isIP(host) === 0 ? await resolve(host, where) : [host]
  const asked = hosts.slice(0, MAX_ASKED).map(address => ask(settings, connector, { host: address, port }))
  const answers = await Promise.all(asked)
  const failures = answers.filter(answer => 'failure' in answer)
  const [good] = answers.filter(answer => 'status' in answer)
  if (good === undefined) throw failures[0]?.failure
  const missing =
    failures.length === 0
      ? ''
      : `, WARNING: ${failures.length} of ${answers.length} addresses fail (${failures[0]?.failure.message})`
  const found = `${where} answers with ${good.status}${expiryNote(good.expiresAtMs)}${missing}`
  return { found, clock: good.clock }
}

async function resolve(host: string, where: string): Promise<readonly string[]> {
  try {
    return await resolveName(host)
  } catch (error) {
    throw explainNetworkFailure(error, where, 'connecting', REACHED_BY)
  }
}

interface Answer {
  readonly status: number
  readonly expiresAtMs: number | null
  readonly clock: ClockReading | undefined
}

/** Sends what the gateway may send: a GET to the path of `upstream.url`, without any header of the settings. */
async function ask(
  { url }: UpstreamSettings,
  connector: SocketConnector,
  { host, port }: Address,
): Promise<Answer | { readonly failure: CheckFailure }> {
  const { origin, pathname } = new URL(url)
  let phase: FailurePhase = 'connecting'
  let expiresAtMs: number | null = null
  const client = new Client(origin, {
    allowH2: false,
    connect: (options, connected) =>
      connector({ ...options, hostname: host, port: String(port), accepts: () => true }, (...result) => {
        const [error, socket] = result
        if (error === null) {
          phase = 'waiting'
          expiresAtMs = peerExpiry(socket)
        }
        connected(...result)
      }),
  })
  try {
    const sentAtMs = Date.now()
    const signal = AbortSignal.timeout(ANSWER_MS)
    const { statusCode, headers, body } = await client.request({ method: 'GET', path: pathname, signal })
    const times = { sentAtMs, receivedAtMs: Date.now() }
    body.on('error', () => {}).destroy()
    const date = Date.parse(String(headers.date))
    const clock = readClock('the upstream', date, times, { resolutionMs: HTTP_DATE_RESOLUTION_MS })
    return { status: statusCode, expiresAtMs, clock }
  } catch (error) {
    return { failure: explainNetworkFailure(error, hostAndPort(host, String(port)), phase, REACHED_BY) }
  } finally {
    await client.destroy()
  }
}
