import { AUTOSCALERS, describeScaling } from './describe-scaling.ts'

/** Beside the chart's own autoscaler; `npm run qualify` takes the others. */
describeScaling(AUTOSCALERS.slice(0, 1))
