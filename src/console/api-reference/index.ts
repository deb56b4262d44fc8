import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { describeApi } from '../../domain/route/describe-api.ts'
import { describeError } from '../../observability/control-logger.ts'
import type { Capability, ConsoleContext } from '../platform/capability.ts'
import { textField } from '../platform/html/form-parts.ts'
import {
  createFrame,
  notFound,
  readFormFields,
  requireWorkspace,
  SHOWS,
  sendPage,
  signedInPerson,
} from '../platform/html/page-request.ts'
import { WORKSPACES } from '../platform/html/paths.ts'
import { bindCalls } from '../platform/http/calls.ts'
import { ADMIN_CALLS, type AdminDocument, describeAdminApi, OPENAPI_CALLS } from './admin-api.ts'
import { apiPage, type TriedRequest } from './api-page.ts'
import { prepareRequest, RequestTrial, type TriedOutcome } from './try-request.ts'

const API = `${WORKSPACES}/:workspaceId/api`

/** The reference of the API behind the gateway, for integrators, and of the admin API. */
export function createApiReference(context: ConsoleContext): Capability {
  const { config, clock, version } = context
  const { publicUrl } = config.console
  const gatewayUrl = config.console.gatewayUrl?.replace(/\/$/, '') ?? null
  const trial = createTrial(context, gatewayUrl)
  const document = describeApi(config, version)
  /** Made at the first request for it. */
  let adminDocument: AdminDocument | null = null
  const showApi = (reply: FastifyReply, tried: TriedRequest | null, status = 200) => {
    const workspaceId = requireWorkspace(reply.request)
    const frame = createFrame(reply, { workspaceId, clock })
    const view = { workspaceId, document, routes: config.routes, gatewayUrl, canTry: trial !== null, tried }
    return sendPage(reply, apiPage(frame, view), status)
  }
  const sendTried = async (trial: RequestTrial, request: FastifyRequest, reply: FastifyReply) => {
    const workspaceId = requireWorkspace(request)
    const fields = readFormFields(request)
    const route = config.routes.find(({ name }) => name === textField(fields, 'route'))
    if (route === undefined) throw notFound()
    const prepared = prepareRequest({ route, workspaceId, keyPrefix: config.keys.prefix }, fields)
    const outcome: TriedOutcome = prepared.ok
      ? await trial.send(signedInPerson(request).subject, prepared.request, reply)
      : { kind: 'not_sent', text: prepared.problem, waitSeconds: null }
    return showApi(reply, { route: route.name, fields, outcome }, statusOf(outcome, reply))
  }
  return {
    calls: bindCalls(OPENAPI_CALLS, {
      describe: () => (adminDocument ??= describeAdminApi(ADMIN_CALLS, { version, publicUrl })),
    }),
    registerPages(scope) {
      scope.get(API, SHOWS, async (_, reply) => showApi(reply, null))
      scope.get(`${API}/openapi.json`, SHOWS, async request => {
        requireWorkspace(request)
        return document
      })
      if (trial === null) return
      void scope.register(async (inner: FastifyInstance) => {
        await trial.register(inner)
        inner.post(API, SHOWS, (request, reply) => sendTried(trial, request, reply))
      })
    },
    async stop() {
      await trial?.stop()
    },
  }
}

/** @returns null if requests cannot be tried */
function createTrial({ config, logger }: ConsoleContext, gatewayUrl: string | null): RequestTrial | null {
  const { triedRequestsPerMinute: perMinute } = config.console
  if (gatewayUrl === null || perMinute === 0) return null
  return new RequestTrial({
    gatewayUrl,
    perMinute,
    proxies: config.outgoing,
    onFailure: cause => logger.warn({ cause: describeError(cause) }, 'tried request got no response'),
  })
}

/** 200 also if the API responded with an error: the page is whole. */
function statusOf(outcome: TriedOutcome, reply: FastifyReply): number {
  if (outcome.kind !== 'not_sent') return 200
  if (outcome.waitSeconds === null) return 422
  void reply.header('retry-after', String(outcome.waitSeconds))
  return 429
}
