package clock

import _ "time"
