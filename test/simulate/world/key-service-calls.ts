import type { KeyRepository, StoredKey } from '../../../src/control/registry/database/key-repository.ts'
import { encodeRecord } from '../../../src/domain/wire.ts'
import type {
  KeyServiceRequest,
  KeyServiceResponse,
} from '../../../src/keys/tiers/key-service/key-service-client.ts'
import { CONSOLE_SECRETS } from './settings.ts'

const [RECORD_KEY] = CONSOLE_SECRETS.recordKeys

interface Answering {
  readonly repository: KeyRepository
  readonly refill: (keys: readonly StoredKey[]) => void
}

interface Body {
  readonly digests: readonly string[]
  readonly gateway: { readonly id: string; readonly name: string; readonly region: string }
  readonly hearing: boolean
  readonly leaving: boolean
  readonly confirmed: readonly { readonly digest: string; readonly version: number }[]
}

/** What `key-service-calls.ts` does, without HTTP. */
export async function answer(
  { repository, refill }: Answering,
  { path, body }: KeyServiceRequest,
): Promise<KeyServiceResponse> {
  if (path.startsWith('/keys/')) {
    const key = await repository.findByDigest(path.slice('/keys/'.length))
    if (key === null) return { status: 404, text: '{"code":"not_found"}' }
    refill([key])
    return { status: 200, text: encodeRecord(key.record, key.digest, RECORD_KEY) }
  }
  // Made by `KeyServiceStore` and `ChangeConfirmer`; another path has no body that fits.
  const { digests = [], gateway, hearing, leaving, confirmed } = body as Body
  if (path === '/lookups') {
    const keys = await repository.findByDigests(digests)
    refill([...keys.values()])
    const texts = digests.map(digest => `"${digest}":${textOf(keys.get(digest))}`)
    return { status: 200, text: `{"records":{${texts.join(',')}}}` }
  }
  await repository.recordGateway({
    ...gateway,
    isConnected: hearing,
    isLeaving: leaving,
    confirmed,
  })
  return { status: 200, text: '{}' }
}

function textOf(key: StoredKey | undefined): string {
  return key === undefined ? 'null' : encodeRecord(key.record, key.digest, RECORD_KEY)
}
