import type { FastifyInstance } from 'fastify'
import { describeApi } from '../domain/route/describe-api.ts'
import { ADMIN_CALLS, adminRoutes } from './admin-calls.ts'
import { ADMIN_PREFIX, describeAdminApi } from './api-reference/describe-admin-api.ts'
import type { OpenRegistry } from './keys/open-registry.ts'
import { createIds } from './keys/operations/ids.ts'
import { createOperationCounter } from './keys/operations/operation-counter.ts'
import type { Leaks } from './leaks/create-leaks.ts'
import type { PageDependencies } from './page-dependencies.ts'
import type { AccessAudit } from './platform/access/access-audit.ts'
import { requirePrincipal } from './platform/access/authenticate-programs.ts'
import type { ConsoleContext } from './platform/console-context.ts'
import { AcceptedTokens } from './platform/http/accepted-tokens.ts'
import { createAddressLimit } from './platform/http/address-limit.ts'
import { mountCalls } from './platform/http/calls.ts'
import { createConsoleServer } from './platform/http/console-server.ts'
import { readForms } from './platform/http/read-bodies.ts'
import { registerPages } from './register-pages.ts'
import type { SignIn } from './sign-in/create-sign-in.ts'
import type { AdminTokens } from './tokens/admin-tokens.ts'
import type { UsageService } from './usage/create-usage-service.ts'
import { isWebhookConfigured } from './webhooks/create-webhook.ts'
import { createRequestedDeliveries } from './webhooks/requested-deliveries.ts'
import type { WebhookDeliveries } from './webhooks/webhook-deliveries.ts'
import type { WorkspaceWebhooks } from './webhooks/workspaces/workspace-webhooks.ts'

interface PublicServerParts {
  readonly open: OpenRegistry
  readonly deliveries: WebhookDeliveries
  /** Null if workspaces may not have webhooks. */
  readonly workspaceWebhooks: WorkspaceWebhooks | null
  readonly signIn: SignIn
  readonly tokens: AdminTokens
  readonly accessAudit: AccessAudit
  readonly usage: UsageService
  /** Null unless reports of leaked keys are received. */
  readonly leaks: Leaks | null
}

/** The listener for people and programs: pages, sign-in and the admin API. It does not listen yet. */
export function createPublicServer(context: ConsoleContext, parts: PublicServerParts): FastifyInstance {
  const { config, metrics, logger, secrets, version = '0.0.0' } = context
  const { open, deliveries, workspaceWebhooks, signIn, tokens, accessAudit, usage, leaks } = parts
  const app = createConsoleServer({
    ...context,
    listener: 'console',
    keyPrefix: config.keys.prefix,
    trustedProxies: config.console.trustedProxies,
    limits: config.console,
    tls: null,
  })
  const document = describeAdminApi(ADMIN_CALLS, { version, publicUrl: config.console.publicUrl })
  const count = createOperationCounter(metrics)
  const calls = adminRoutes(
    { ...open, count, deliveries, workspaceWebhooks, tokens, usage, logger, document },
    metrics,
  )
  // Beside people and programs: a report needs neither session nor token.
  leaks?.register(app)
  void app.register(async scope => {
    await signIn.authenticate(scope)
    accessAudit.watch(scope)
    const admit = requirePrincipal({
      operatorTokens: new AcceptedTokens({
        ...context,
        setting: 'console.adminToken',
        tokens: () => secrets.value.adminTokens,
      }),
      tokens,
      limit: createAddressLimit(config.console.failedTokensPerMinute, context.randomBytes),
    })
    mountCalls(scope, { prefix: ADMIN_PREFIX, admit, unknownPath: 'not_found' }, calls)
    void scope.register(async pages => {
      readForms(pages)
      signIn.registerRoutes(pages)
      registerPages(pages, pageDependenciesOf(context, parts), logger)
    })
  })
  return app
}

function pageDependenciesOf(
  { config, metrics, clock, randomBytes, version = '0.0.0' }: ConsoleContext,
  { open, deliveries, workspaceWebhooks, signIn, usage }: PublicServerParts,
): PageDependencies {
  const { scopes, routes } = config
  return {
    registry: open.registry,
    sessions: signIn.sessions,
    people: { ...open, clock, limits: config.console.session },
    deliveries: isWebhookConfigured(config.console.webhook)
      ? {
          list: deliveries.list,
          ...createRequestedDeliveries(deliveries, clock, createIds('msg', randomBytes)),
        }
      : null,
    usage,
    workspaceWebhooks,
    count: createOperationCounter(metrics),
    scopes,
    routes,
    document: describeApi(config, version),
    gatewayUrl: config.console.gatewayUrl?.replace(/\/$/, '') ?? null,
    hasOriginOfGateway: originOf(config.console.gatewayUrl) === originOf(config.console.publicUrl),
  }
}

/** @returns null without a URL */
function originOf(url: string | undefined): string | null {
  return URL.parse(url ?? '')?.origin ?? null
}
