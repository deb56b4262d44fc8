import { CONSOLE_FAULTS } from './console-faults.ts'
import { DECISION_FAULTS } from './decision-faults.ts'
import { GATEWAY_FAULTS } from './gateway-faults.ts'
import type { PlantedFault } from './planted-fault.ts'
import { REGION_FAULTS } from './region-faults.ts'

export const PLANTED_FAULTS: readonly PlantedFault[] = [
  ...GATEWAY_FAULTS,
  ...CONSOLE_FAULTS,
  ...REGION_FAULTS,
  ...DECISION_FAULTS,
]
