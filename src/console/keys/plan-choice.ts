import type { FastifyRequest } from 'fastify'
import type { RequestedFields } from '../../domain/key/key-fields.ts'
import { sees } from '../platform/access/principal.ts'
import { ApiError } from '../platform/http/api-error.ts'
import { requirePrincipal } from '../platform/http/request-context.ts'

/** A plan is what a customer pays for: who is limited to workspaces, as customers are, does not choose one. */
export function choosesPlans(request: FastifyRequest): boolean {
  return sees(requirePrincipal(request), null)
}

export const PLAN_NOT_CHOSEN =
  'Only administrators, and tokens for all workspaces, choose a plan; leave it out'

/** @throws if the request chooses a plan, also none, and may not. @param plan absent if it chooses nothing */
export function requirePlanChoice(request: FastifyRequest, plan: string | null | undefined): void {
  if (plan !== undefined && !choosesPlans(request)) {
    throw new ApiError('forbidden', PLAN_NOT_CHOSEN, {}, 'plan')
  }
}

/** What a form asks for, without the plan where the person may not choose one: such a form has no field for it. */
export function withPlanChoice<Fields extends RequestedFields>(
  request: FastifyRequest,
  fields: Fields,
): Fields {
  return choosesPlans(request) ? fields : { ...fields, plan: undefined }
}
