import { describeFigures } from '../../console/figures.contract.ts'

describeFigures({ keys: 100_000, heldMegabytes: 20, operations: 1000 })
