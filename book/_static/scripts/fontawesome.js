/* Stands in the place of the theme's 1.5 MB icon script: the dozen icons that a page uses are letters of the theme's icon
   font, set in sched-labs.css. */
