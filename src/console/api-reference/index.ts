import type { Config } from '../../config/schema/schema.ts'
import type { Clock } from '../../domain/clock.ts'
import { describeApi } from '../../domain/route/describe-api.ts'
import type { Capability } from '../platform/capability.ts'
import { createFrame, requireWorkspace, SHOWS, sendPage } from '../platform/html/page-request.ts'
import { WORKSPACES } from '../platform/html/paths.ts'
import { bindCalls } from '../platform/http/calls.ts'
import { ADMIN_CALLS, OPENAPI_CALLS } from './admin-calls.ts'
import { apiPage } from './api-page.ts'
import { describeAdminApi } from './describe-admin-api.ts'

const API = `${WORKSPACES}/:workspaceId/api`

/** The reference of the API behind the gateway, for integrators, and of the admin API. */
export function createApiReference(config: Config, clock: Clock, version: string): Capability {
  const { publicUrl } = config.console
  const gatewayUrl = config.console.gatewayUrl?.replace(/\/$/, '') ?? null
  const canTry = gatewayUrl !== null && urlOrigin(gatewayUrl) === urlOrigin(publicUrl)
  const document = describeApi(config, version)
  return {
    calls: bindCalls(OPENAPI_CALLS, { document: describeAdminApi(ADMIN_CALLS, { version, publicUrl }) }),
    registerPages(scope) {
      scope.get(API, SHOWS, async (request, reply) => {
        const workspaceId = requireWorkspace(request)
        const frame = createFrame(request, reply, { workspaceId, clock })
        return sendPage(
          reply,
          apiPage(frame, { workspaceId, document, routes: config.routes, gatewayUrl, canTry }),
        )
      })
      scope.get(`${API}/openapi.json`, SHOWS, async request => {
        requireWorkspace(request)
        return document
      })
    },
  }
}

/** @returns null without a URL */
function urlOrigin(url: string | undefined): string | null {
  return URL.parse(url ?? '')?.origin ?? null
}
