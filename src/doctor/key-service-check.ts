import { randomUUID } from 'node:crypto'
import type { Config } from '../config/schema/schema.ts'
import { UNKNOWN_ROUTE_TEXT } from '../domain/denial.ts'
import { parseJsonObject } from '../domain/form/json.ts'
import { fingerprintSecret } from '../domain/key/secret.ts'
import { DEFAULT_REGION } from '../domain/region.ts'
import { readReportResponse } from '../keys/reports/change-confirmer.ts'
import { compareFingerprints } from '../keys/reports/settings-checks.ts'
import { isNotOffered, KeyServiceClient, type KeyServiceRequest } from '../keys/tiers/key-service-client.ts'
import { readSingle } from '../keys/tiers/key-service-store.ts'
import { expiryNote, watchCertificates } from './certificates.ts'
import {
  ANSWER_MS,
  type Check,
  CheckFailure,
  type ClockReading,
  GATEWAY_LIMIT_MS,
  type Passed,
  readClock,
} from './finding.ts'
import { explainNetworkFailure } from './network-failure.ts'

const REACHED_BY = {
  server: 'the console or key service',
  address: 'keyService.url',
  authority: 'keyService.tls.caFile',
}
const ADDRESS_ADVICE =
  'check that keyService.url is the internal listener of a console (console.internal.port)'
const DATABASE_ADVICE = 'the console cannot use its database: run postern doctor console there'
const MAX_BYTES = 16 * 1024
/** Of no key. */
const DIGEST = '0'.repeat(64)
const LOOKUP: KeyServiceRequest = { method: 'GET', path: `/keys/${DIGEST}`, maxBytes: MAX_BYTES }

/** Looks a key up that does not exist, and signs off as a gateway that never signed on: neither leaves a trace. */
export function keyServiceChecks(config: Config): Check[] {
  const { url } = config.keyService
  return url === undefined ? [] : [{ name: 'key service', run: () => checkKeyService(config, url) }]
}

async function checkKeyService(config: Config, url: string): Promise<Passed> {
  const client = new KeyServiceClient({ ...config.keyService, url, region: config.region })
  const { host } = new URL(url)
  const certificates = watchCertificates()
  // For both calls.
  const signal = AbortSignal.timeout(ANSWER_MS)
  const send = async (request: KeyServiceRequest) => {
    try {
      return await client.request(request, signal)
    } catch (error) {
      throw explainNetworkFailure(error, host, 'connecting', REACHED_BY)
    }
  }
  try {
    const lookup = await send(LOOKUP)
    if (lookup.status === 401 || lookup.status === 403) {
      const advice = 'set keyService.token to the same token at gateway and console'
      throw new CheckFailure(`${host} rejects the token with ${lookup.status}`, advice)
    }
    const result = readSingle(lookup, DIGEST)
    if (result.kind === 'failed') {
      const code = parseJsonObject(lookup.text)?.['code']
      const advice = code === 'database_unavailable' ? DATABASE_ADVICE : ADDRESS_ADVICE
      throw new CheckFailure(`${host}: ${result.error.message}`, advice)
    }
    // The code is that by which a key service says that a key does not exist.
    if (parseJsonObject(lookup.text)?.['error'] === UNKNOWN_ROUTE_TEXT)
      throw new CheckFailure(
        `${host} is a gateway, which answers every lookup with not_found`,
        ADDRESS_ADVICE,
      )
    const { note, clock } = await compareSettings(config, send)
    const found = `${host} accepts the token and looks keys up${note}${expiryNote(certificates.expiryOf(new URL(url)))}`
    return { found, clock }
  } finally {
    certificates.stop()
    await client.stop()
  }
}

/** Compares signing secrets and region. Key services of other makers may not offer this call. */
async function compareSettings(
  { keys, region }: Config,
  send: (request: KeyServiceRequest) => ReturnType<KeyServiceClient['request']>,
): Promise<{ readonly note: string; readonly clock: ClockReading | undefined }> {
  const gateway = { id: randomUUID(), name: 'postern-doctor', ...(region === undefined ? {} : { region }) }
  const body = { gateway, connected: false, leaving: true, confirmed: [] }
  const sentAtMs = Date.now()
  const response = await send({ method: 'POST', path: '/confirmations', body, maxBytes: MAX_BYTES })
  const times = { sentAtMs, receivedAtMs: Date.now() }
  if (isNotOffered(response)) return { note: ', and does not compare settings', clock: undefined }
  const { fingerprints, regions, atMs } = readReportResponse(response.text)
  requireRegion(region ?? DEFAULT_REGION, regions)
  const note = keys.format === 'opaque' ? '' : requireSecrets(keys.signingSecrets, fingerprints)
  const options = { limitMs: GATEWAY_LIMIT_MS }
  return { note, clock: atMs === null ? undefined : readClock('the console', atMs, times, options) }
}

function requireRegion(region: string, regions: readonly string[]): void {
  if (regions.length === 0 || regions.includes(region)) return
  const found = `the console has no region ${region}, and so announces it no change`
  throw new CheckFailure(found, `set region to one of ${regions.join(', ')}`)
}

function requireSecrets(secrets: readonly string[], theirs: readonly string[]): string {
  const own = secrets.map(secret => fingerprintSecret(Buffer.from(secret, 'base64')))
  const advice = 'set keys.signingSecrets to the same list at gateway and console'
  switch (compareFingerprints(own, theirs)) {
    case 'mismatch':
      throw new CheckFailure('the console signs keys with other secrets: every key is rejected', advice)
    case 'partial':
      throw new CheckFailure('the console signs new keys with a secret that is missing here', advice)
    case 'match':
      return ', signing secrets agree'
    default:
      return ', and does not say its signing secrets'
  }
}
