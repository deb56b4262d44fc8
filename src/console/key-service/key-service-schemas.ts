import { type Static, Type } from 'typebox'
import { MAX_VERSION } from '../../domain/key/key-record.ts'
import { REGION_NAME } from '../../domain/region.ts'

/** A description completes `<field> must be …`. */
const closed = { additionalProperties: false }
const DIGEST = '^[0-9a-f]{64}$'

export const lookupsBody = Type.Object(
  {
    digests: Type.Array(Type.String({ pattern: DIGEST }), {
      minItems: 1,
      maxItems: 256,
      description: 'a list of 1 to 256 digests, each of 64 lower-case hexadecimal digits',
    }),
  },
  closed,
)
export type LookupsBody = Static<typeof lookupsBody>

export const confirmationsBody = Type.Object(
  {
    gateway: Type.Object(
      {
        id: Type.String({ pattern: '^[A-Za-z0-9._-]{1,64}$' }),
        name: Type.String({ pattern: '^[A-Za-z0-9._-]{1,253}$' }),
        region: Type.Optional(Type.String({ pattern: REGION_NAME })),
      },
      {
        ...closed,
        description:
          'an object with id and name, each of A-Z, a-z, 0-9 and "-", ".", "_", and region, if any, of a-z, 0-9 and "-"',
      },
    ),
    connected: Type.Boolean({ description: 'true or false' }),
    leaving: Type.Boolean({ description: 'true or false' }),
    drain: Type.Optional(
      Type.Union([Type.Literal('completed'), Type.Literal('timed_out')], {
        description: 'completed or timed_out',
      }),
    ),
    confirmed: Type.Array(
      Type.Object(
        {
          digest: Type.String({ pattern: DIGEST }),
          version: Type.Integer({ minimum: 1, maximum: MAX_VERSION }),
        },
        closed,
      ),
      { maxItems: 1000, description: 'a list of at most 1000 objects, each with digest and version' },
    ),
  },
  closed,
)
export type ConfirmationsBody = Static<typeof confirmationsBody>
