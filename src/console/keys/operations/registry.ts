import type { KeyObject } from 'node:crypto'
import { reloadable } from '../../../config/reloadable.ts'
import type { Timers } from '../../../domain/clock.ts'
import type { GatewayRows } from '../../announcing/index.ts'
import type { ConsoleContext } from '../../platform/console-context.ts'
import { createIds, type RandomBytes } from '../../platform/database/ids.ts'
import type { KeyRows } from '../rows/key-rows.ts'
import { createOperationCounter, type OperationParts } from './run-operation.ts'

/** What operations on keys need. */
export interface Registry extends OperationParts, KeyRows {
  readonly gateways: Pick<GatewayRows, 'listGatewayStatuses'>
  readonly timers: Timers
  readonly randomBytes: RandomBytes
  readonly newKeyId: (nowMs: number) => string
  readonly newAuditId: (nowMs: number) => string
  readonly keyPrefix: string
  readonly signingKey: KeyObject
  readonly knownScopes: readonly string[]
  readonly knownPlans: readonly string[]
}

export function createRegistry(
  { config, clock, timers, randomBytes, secrets, metrics, onReload }: ConsoleContext,
  parts: KeyRows & Pick<Registry, 'gateways' | 'inEachRegion' | 'createEvents'>,
): Registry {
  const plans = reloadable(config, onReload, ({ limits }) => Object.keys(limits.plans))
  return {
    ...parts,
    clock,
    timers,
    randomBytes,
    newKeyId: createIds('key', randomBytes),
    newAuditId: createIds('audit', randomBytes),
    keyPrefix: config.keys.prefix,
    get signingKey() {
      return secrets.value.signingKey
    },
    knownScopes: Object.keys(config.scopes),
    get knownPlans() {
      return plans.value
    },
    count: createOperationCounter(metrics),
  }
}
