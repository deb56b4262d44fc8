import type { GatewayRows } from '../../../src/console/announcing/gateway-rows.ts'
import type { Clock } from '../../../src/domain/clock.ts'
import type { StoredKey } from '../../../src/domain/key/key-record.ts'
import { encodeRecord } from '../../../src/domain/wire.ts'
import type { KeyServiceRequest, KeyServiceResponse } from '../../../src/keys/tiers/key-service-client.ts'
import { CONSOLE_SECRETS } from './settings.ts'

const [RECORD_KEY] = CONSOLE_SECRETS.recordKeys
/** Records do not change, and a MAC costs as much as many events. */
const TEXTS = new WeakMap<StoredKey, string>()

interface Answering {
  readonly gateways: Pick<GatewayRows, 'recordGateway'>
  /** One for each digest, in their order. */
  readonly find: (digests: readonly string[]) => Promise<readonly (StoredKey | null)[]>
  readonly clock: Pick<Clock, 'wallMs'>
  readonly refill: (keys: readonly StoredKey[]) => void
}

interface Body {
  readonly digests: readonly string[]
  readonly gateway: { readonly id: string; readonly name: string; readonly region: string }
  readonly connected: boolean
  readonly leaving: boolean
  readonly confirmed: readonly { readonly digest: string; readonly version: number }[]
}

/** What `key-service-calls.ts` does, without HTTP. */
export async function answer(
  { gateways, clock, find, refill }: Answering,
  { path, body }: KeyServiceRequest,
): Promise<KeyServiceResponse> {
  if (path.startsWith('/keys/')) {
    const [key = null] = await find([path.slice('/keys/'.length)])
    if (key === null) return { status: 404, text: '{"code":"not_found"}' }
    refill([key])
    return { status: 200, text: textOf(key) }
  }
  // Made by `KeyServiceStore` and `ChangeConfirmer`; another path has no body that fits.
  const { digests = [], gateway, connected, leaving, confirmed } = body as Body
  if (path === '/lookups') {
    const keys = await find(digests)
    refill(keys.filter(key => key !== null))
    const texts = digests.map((digest, index) => `"${digest}":${textOrNull(keys[index] ?? null)}`)
    return { status: 200, text: `{"records":{${texts.join(',')}}}` }
  }
  await gateways.recordGateway({
    ...gateway,
    isConnected: connected,
    isLeaving: leaving,
    confirmed,
  })
  return { status: 200, text: `{"at":${clock.wallMs()}}` }
}

function textOrNull(key: StoredKey | null): string {
  return key === null ? 'null' : textOf(key)
}

function textOf(key: StoredKey): string {
  const known = TEXTS.get(key)
  if (known !== undefined) return known
  const text = encodeRecord(key.record, key.digest, RECORD_KEY)
  TEXTS.set(key, text)
  return text
}
