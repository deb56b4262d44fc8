import type { PlantedFault } from './planted-fault.ts'

const AUTHORIZE = 'domain/authorize.ts'
const WIRE = 'domain/wire.ts'
const MESSAGE = 'domain/invalidation-message.ts'

/** What the oracle knows by itself: the checks of a key, and who may say something about it. */
export const DECISION_FAULTS: readonly PlantedFault[] = [
  {
    name: 'a revoked key is accepted',
    mutations: [
      { file: AUTHORIZE, from: "if (grant.revokedAtMs !== null) return denied('key_revoked')", to: '' },
    ],
  },
  {
    name: 'an expired key is accepted',
    mutations: [
      { file: AUTHORIZE, from: "if (!(nowMs < grant.expiresAtMs)) return denied('key_expired')", to: '' },
    ],
  },
  {
    name: 'a suspended key is accepted',
    mutations: [
      {
        file: AUTHORIZE,
        from: "return grant.suspendedAtMs === null ? null : denied('key_suspended')",
        to: 'return null',
      },
    ],
  },
  {
    name: 'a key is accepted from every network',
    mutations: [{ file: AUTHORIZE, from: 'allowedCidrs.length === 0 ||', to: 'allowedCidrs.length >= 0 ||' }],
  },
  {
    name: 'a key is accepted for another workspace',
    mutations: [{ file: AUTHORIZE, from: 'requested === grant.workspaceId ?', to: 'requested !== "" ?' }],
  },
  {
    name: 'a key is accepted without the scope',
    mutations: [{ file: AUTHORIZE, from: 'grant.scopes.includes(scope)', to: 'grant.scopes.length > 0' }],
  },
  {
    name: 'a record with a wrong MAC is accepted',
    mutations: [
      {
        file: WIRE,
        from: 'mac === macOfGrant(grant, digest, key)',
        to: 'mac !== macOfGrant(grant, "", key)',
      },
    ],
  },
  {
    name: 'a message with a wrong MAC counts',
    mutations: [{ file: MESSAGE, from: "hasMac(message, json['mac'], messageKeys)", to: 'true' }],
  },
  {
    name: 'a message for another region counts',
    mutations: [
      { file: MESSAGE, from: 'verified: isSigned && message.region === region', to: 'verified: isSigned' },
    ],
  },
  {
    name: 'recorded heartbeats count at a gateway that started later',
    mutations: [
      {
        file: 'keys/invalidation/heartbeat-senders.ts',
        from: '} else if (known?.wasFresh !== true && trueAgeMs > MAX_FIRST_AGE_MS) return false',
        to: '}',
      },
    ],
  },
]
