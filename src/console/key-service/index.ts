import type { FastifyInstance } from 'fastify'
import { onReloadOf } from '../../config/reloadable.ts'
import type { OpenRegistry } from '../keys/open-registry.ts'
import type { ConsoleContext } from '../platform/console-context.ts'
import { AcceptedTokens } from '../platform/http/accepted-tokens.ts'
import type { UsageService } from '../usage/index.ts'
import { createInternalServer } from './internal-server.ts'
import { keyServiceCalls } from './key-service-calls.ts'
import { LiveGateways } from './live-gateways.ts'

/** What gateways ask and report, on a listener of its own. */
export function createInternalListener(
  context: ConsoleContext,
  { repository, regions }: OpenRegistry,
  usage: UsageService,
): FastifyInstance {
  const { config, onReload, logger, metrics, secrets } = context
  return createInternalServer({
    ...context,
    keyPrefix: config.keys.prefix,
    settings: config.console.internal,
    onReload: onReloadOf(onReload, next => next.console.internal),
    tokens: new AcceptedTokens({
      ...context,
      setting: 'keyService.token',
      tokens: () => secrets.value.keyServiceTokens,
    }),
    calls: keyServiceCalls({
      repository,
      clock: context.clock,
      liveGateways: new LiveGateways(repository, context.clock),
      usageCall: usage.call,
      metrics,
      get recordKeys() {
        return secrets.value.recordKeys
      },
      get fingerprints() {
        return secrets.value.fingerprints
      },
      regions: regions.list.map(({ name }) => name),
      refill: (keys, region) => regions.refill(keys, region),
      logger,
    }),
  })
}
