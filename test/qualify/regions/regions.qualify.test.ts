import { testFarRegions } from '../../regions/far-regions.contract.ts'

const EACH = ['eu', 'us', 'ap'] as const

/** `npm run regions` revokes 1,000. */
testFarRegions({ keys: Number(process.env['REVOCATIONS'] ?? 120), unannounced: EACH, cutOff: EACH })
