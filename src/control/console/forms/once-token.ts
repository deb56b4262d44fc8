import type { FastifyRequest } from 'fastify'
import { callerOf } from '../../http/request-context.ts'
import { idempotencyOf } from '../../registry/operations/idempotency.ts'
import type { RandomBytes } from '../../registry/operations/ids.ts'
import type { OperationContext } from '../../registry/operations/run-operation.ts'
import { fieldsOf } from '../routes/page-request.ts'
import { textField } from './form-fields.ts'

const ONCE = /^[A-Za-z0-9_-]{22}$/

/** Makes a form that is submitted twice, as by reloading, one request. */
export function newOnceToken(randomBytes: RandomBytes): string {
  return Buffer.from(randomBytes(16)).toString('base64url')
}

/**
 * @param what everything that determines the effect: operation, path parameters, form
 * @returns null without the token: submitting such a form twice would act twice
 */
export function readFormContext(
  request: FastifyRequest,
  what: readonly [operation: 'issue' | 'rotate', parameters: object, form: object],
): OperationContext | null {
  const once = textField(fieldsOf(request), 'once')
  if (!ONCE.test(once)) return null
  const caller = callerOf(request)
  return { caller, idempotency: idempotencyOf(caller.actor, `form:${once}`, what) }
}

/** Shown when a form without problems is shown again. */
export const FORM_NOTICES = {
  reused:
    'This form was already submitted with other values. Nothing was changed. Submit it again to issue another key.',
  incomplete: 'The form was incomplete. Nothing was changed. Submit it again.',
} as const
